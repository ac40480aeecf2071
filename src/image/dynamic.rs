//! Images that are in memory as pixels.
//!
//! Owns their way to PNG; must not know data URIs.

use std::io::Cursor;

use ::image::{DynamicImage, ImageFormat};

use super::{Form, ImageInput};
use crate::error::Error;

/// As PNG, which is made here and now: without loss, save that floating point becomes 16 bits.
///
/// ```
/// use agent_hub_kit::encode_image_to_data_uri;
///
/// let black = image::DynamicImage::new_rgb8(2, 2);
/// let uri = encode_image_to_data_uri(black)?;
/// assert!(uri.as_str().starts_with("data:image/png;base64,iVBORw0KGgo"));
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
impl From<DynamicImage> for ImageInput {
    fn from(image: DynamicImage) -> Self {
        let image = match &image {
            DynamicImage::ImageRgb32F(_) => image.to_rgb16().into(),
            DynamicImage::ImageRgba32F(_) => image.to_rgba16().into(),
            _ => image,
        };
        let mut png = Cursor::new(Vec::new());
        let drawn = match image.width().min(image.height()) {
            0 => Err(Error::config("the image has no pixels")),
            _ => image
                .write_to(&mut png, ImageFormat::Png)
                .map_err(|e| Error::config(format!("the image cannot be written as PNG: {e}"))),
        };
        Self(Form::Drawn(drawn.map(|()| png.into_inner().into())))
    }
}

#[cfg(test)]
mod tests {
    use ::image::{DynamicImage, ImageReader};

    use super::*;
    use crate::image::{as_image_uris, encode_image_to_data_uri};

    #[test]
    fn pixels_come_back_as_they_were() {
        let images = [
            DynamicImage::new_luma8(3, 1),
            DynamicImage::new_luma_a16(1, 3),
            DynamicImage::new_rgb16(2, 2),
            DynamicImage::new_rgba8(2, 2),
        ];
        for image in images {
            let uri = encode_image_to_data_uri(image.clone()).unwrap();
            assert_eq!(uri.media_type(), "image/png");
            let mut reader = ImageReader::new(Cursor::new(uri.decode()));
            reader.set_format(ImageFormat::Png);
            assert_eq!(reader.decode().unwrap(), image, "{:?}", image.color());
        }
        for float in [
            DynamicImage::new_rgb32f(2, 2),
            DynamicImage::new_rgba32f(2, 2),
        ] {
            let uri = encode_image_to_data_uri(float).unwrap();
            assert_eq!(uri.media_type(), "image/png");
        }
    }

    #[test]
    fn an_image_without_pixels_is_none() {
        for (width, height) in [(0, 0), (0, 5), (5, 0)] {
            let error = as_image_uris([DynamicImage::new_rgb8(width, height)]).unwrap_err();
            assert_eq!(error.to_string(), "images[0]: the image has no pixels");
        }
    }
}
